import { stayLean } from "../../src/server/runtime.ts";

// As in `farebox serve`, before the modules of a server are loaded.
stayLean();
await import("./farebox-proxy.ts");
