// Runs the module that the first argument names, in a thread or in a worker process. Compiled code is kept between runs.
// This file is JavaScript: Node takes 20 MB and 60 ms to load what strips the types of a TypeScript file.
import module from "node:module";

module.enableCompileCache();
await import(process.argv[2]);
