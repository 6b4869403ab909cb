// cspell:ignore gomodel bifrost maximhq
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Other proxies that are measured if they are installed. The project depends on none of them. */
export const otherNames = ["nginx", "portkey", "litellm", "gomodel", "bifrost"] as const;
export type OtherName = (typeof otherNames)[number];

/** Default folder of the other programs. Git ignores it. */
export const othersFolder = fileURLToPath(new URL("./.others", import.meta.url));

interface Other {
  /** Path of the executable within the folder. */
  readonly file: string;
  /** Command to look up in PATH; null to search only the folder. */
  readonly command: string | null;
  /** Command that installs it. */
  readonly install: string;
}

const others: Readonly<Record<OtherName, Other>> = {
  nginx: { file: "nginx/usr/sbin/nginx", command: "nginx", install: "apt-get install nginx" },
  // Streams fail with later versions of @hono/node-server: Portkey-AI/gateway, issue 1389.
  portkey: {
    file: "portkey/node_modules/@portkey-ai/gateway/build/start-server.js",
    command: null,
    install:
      "mkdir -p bench/.others/portkey && cd bench/.others/portkey && npm init -y && npm pkg set overrides.@hono/node-server=1.14.1 && npm install @portkey-ai/gateway@1.15.2",
  },
  // Some releases contained malware (March and October 2026), so the version is pinned and only wheels are installed.
  litellm: {
    file: "litellm/bin/litellm",
    command: null,
    install:
      "python3 -m venv bench/.others/litellm && bench/.others/litellm/bin/pip install --only-binary=:all: 'litellm[proxy]==1.102.4'",
  },
  gomodel: {
    file: "gomodel/gomodel",
    command: null,
    install:
      "mkdir -p bench/.others/gomodel && curl -fL https://github.com/ENTERPILOT/GoModel/releases/download/v0.1.66/gomodel_0.1.66_linux_amd64.tar.gz | tar -xz -C bench/.others/gomodel gomodel",
  },
  bifrost: {
    file: "bifrost/v1.4.19/bin/bifrost-http-0",
    command: null,
    install: "XDG_CACHE_HOME=$PWD/bench/.others npx --yes @maximhq/bifrost@1.6.3 --transport-version v1.4.19 -help",
  },
};

/** Returns the path of an installed program, or a sentence that says how to install it. */
export function findOther(
  name: OtherName,
  folder: string,
  path = process.env["PATH"] ?? "",
): { readonly ok: true; readonly path: string } | { readonly ok: false; readonly why: string } {
  const { file, command, install } = others[name];
  const candidates = [
    join(folder, file),
    ...(command === null ? [] : path.split(delimiter).map((each) => join(each, command))),
  ];
  const found = candidates.find(isReadable);
  return found === undefined
    ? { ok: false, why: `${name} is not measured, because it is not installed. To install it: ${install}` }
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
