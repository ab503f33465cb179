// Writes .gz and .br beside every built text file, so that the server never compresses anything itself.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const TEXT = /\.(js|css|svg|txt|json)$/;
const WORTH_IT = 1024;

export function compressed() {
  let folder = "";
  return {
    name: "penstock-compressed",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    async closeBundle() {
      const names = await readdir(folder, { recursive: true });
      for (const name of names.filter((each) => TEXT.test(each))) {
        const bytes = await readFile(join(folder, name));
        if (bytes.length < WORTH_IT) continue;
        const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
        await writeFile(join(folder, `${name}.gz`), gzipSync(bytes, { level: 9 }));
        await writeFile(join(folder, `${name}.br`), brotliCompressSync(bytes, quality));
      }
    },
  };
}
