/** Installs the clients of this folder. */
import { fileURLToPath } from "node:url";
import { installIn } from "../../support/install-in.ts";

installIn(fileURLToPath(new URL(".", import.meta.url)));
