// Builds the page's two programs into the package: `npm ci && npm run build`. What is built is committed, so that neither
// an installation nor the page needs Node or a network.
import { build } from "esbuild";

const common = {
  bundle: true, format: "esm", target: "es2022", minify: true, legalComments: "none", charset: "utf8", logLevel: "info",
};
const folder = "../src/transformula/serving/page";
await build({ ...common, entryPoints: ["src/main.ts"], outfile: `${folder}/studio.js` });
await build({ ...common, entryPoints: ["src/python.ts"], outfile: `${folder}/python.js` });
