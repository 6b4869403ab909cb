import { stayLean } from "../runtime.ts";

// `stayLean` must run before `node:http` is loaded, which worker.ts imports.
stayLean();
await import("./worker.ts");
