// Collects the licence texts of the packages that end up in the bundle: they ask to travel with the code.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const PACKAGE = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/;

export function licences() {
  const folders = new Set();
  return {
    name: "penstock-licences",
    apply: "build",
    generateBundle(_, bundle) {
      for (const chunk of Object.values(bundle)) {
        for (const id of Object.keys(chunk.modules ?? {})) {
          const folder = PACKAGE.exec(id.replace(/^\0/, ""))?.[0];
          if (folder !== undefined && existsSync(join(folder, "package.json"))) folders.add(folder);
        }
      }
      this.emitFile({ type: "asset", fileName: "licences.txt", source: [...folders].sort().map(text).join("\n") });
    },
  };
}

function text(folder) {
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
  if (file === undefined) throw new Error(`${about.name} has no licence text in ${folder}`);
  return `${about.name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}
