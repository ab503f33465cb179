import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

import { compressed } from "./scripts/compressed.js";
import { licences } from "./scripts/licences.js";

export default defineConfig({
  // The server says where the page lives, by <base href>; everything here is relative to it.
  base: "./",
  plugins: [svelte(), licences(), compressed()],
  worker: { format: "es" },
  build: {
    outDir: "../src/penstock/_ui",
    emptyOutDir: true,
    target: "es2022",
    // Inlined assets would be data: addresses, which the page's policy does not allow for scripts and fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: { "/v1": "http://127.0.0.1:7367" },
  },
});
