import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
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

/**
 * Creates a private certificate authority in the folder, and a certificate that it signed for the names, such as
 * "DNS:gateway.test" or "IP:93.184.216.34". `authority` is the path of the authority's certificate.
 */
export function signedByPrivateAuthority(
  folder: string,
  names: readonly string[],
): { readonly authority: string; readonly key: string; readonly cert: string } {
  const at = (name: string) => join(folder, name);
  const run = (...args: readonly string[]) => execFileSync("openssl", args, { stdio: "ignore" });
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const [authority, authorityKey] = [at("authority.pem"), at("authority-key.pem")];
  run("req", "-x509", "-days", "2", ...curve, "-subj", "/CN=Corp CA", "-keyout", authorityKey, "-out", authority);
  run("req", ...curve, "-subj", "/CN=server", "-keyout", at("server-key.pem"), "-out", at("server.csr"));
  writeFileSync(at("names.cnf"), `subjectAltName=${names.join(",")}\n`);
  const signer = ["-CA", authority, "-CAkey", authorityKey, "-CAcreateserial", "-extfile", at("names.cnf")];
  run("x509", "-req", "-days", "2", "-in", at("server.csr"), ...signer, "-out", at("server.pem"));
  return { authority, key: readFileSync(at("server-key.pem"), "utf8"), cert: readFileSync(at("server.pem"), "utf8") };
}
