import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Programs that Farebox is measured beside where somebody has installed them. The project depends on none of them. */
export const otherNames = ["nginx", "portkey", "litellm"] as const;
export type OtherName = (typeof otherNames)[number];

/** Default folder of the other programs; nothing in it is committed. */
export const othersFolder = fileURLToPath(new URL("./.others", import.meta.url));

interface Other {
  /** Path of its executable within the folder. */
  readonly file: string;
  /** Its command where it is installed for the whole machine; null where only the folder is searched. */
  readonly command: string | null;
  /** Command that installs it. */
  readonly install: string;
}

const others: Readonly<Record<OtherName, Other>> = {
  nginx: { file: "nginx/usr/sbin/nginx", command: "nginx", install: "apt-get install nginx" },
  // Streams fail with a later server beneath it: Portkey-AI/gateway, issue 1389.
  portkey: {
    file: "portkey/node_modules/@portkey-ai/gateway/build/start-server.js",
    command: null,
    install:
      "mkdir -p bench/.others/portkey && cd bench/.others/portkey && npm init -y && npm pkg set overrides.@hono/node-server=1.14.1 && npm install @portkey-ai/gateway@1.15.2",
  },
  // Releases of it have carried malware (March and October 2026): a version that is known, and nothing but wheels.
  litellm: {
    file: "litellm/bin/litellm",
    command: null,
    install:
      "python3 -m venv bench/.others/litellm && bench/.others/litellm/bin/pip install --only-binary=:all: 'litellm[proxy]==1.102.4'",
  },
};

/** The path of an installed program, or the sentence that says how it would be. */
export function findOther(
  name: OtherName,
  folder: string,
  path = process.env["PATH"] ?? "",
): { readonly ok: true; readonly path: string } | { readonly ok: false; readonly why: string } {
  const { file, command, install } = others[name];
  const places = [
    join(folder, file),
    ...(command === null ? [] : path.split(delimiter).map((each) => join(each, command))),
  ];
  const found = places.find(isReadable);
  return found === undefined
    ? { ok: false, why: `${name} is left out, because it is not installed: ${install}` }
    : { ok: true, path: found };
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}
