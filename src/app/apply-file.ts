import { applyFileKind, type ApplyFile } from "../admin/apply-file.ts";
import type { ReadYaml } from "../ports/yaml.ts";
import { readYaml } from "../yaml/read.ts";

/** A file of `apply` with all that is wrong in its shape. */
export function readApplyFile(name: string, text: string): ReadYaml<ApplyFile> {
  return readYaml(name, text, applyFileKind);
}
