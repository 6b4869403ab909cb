import { execFileSync } from "node:child_process";
import { join } from "node:path";

/** Writes a self-signed certificate for localhost and its key into the folder, and returns their paths. */
export function selfSigned(folder: string): { readonly key: string; readonly certificate: string } {
  const [key, certificate] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const files = ["-nodes", "-keyout", key, "-out", certificate];
  execFileSync("openssl", ["req", "-x509", "-days", "2", ...curve, ...name, ...files], { stdio: "ignore" });
  return { key, certificate };
}
