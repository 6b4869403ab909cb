import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { Seal } from "../../ports/seal.ts";

const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;
/** Version of the sealed format, before the encoded bytes. */
const versionPrefix = "v1.";

/** Creates a seal that uses AES-256-GCM. HKDF-SHA256 derives its keys from the gateway's key, which is random. */
export function createSeal(gatewayKey: string): Seal {
  const keyFor = (use: string) => Buffer.from(hkdfSync("sha256", gatewayKey, "farebox", use, 32));
  const [encryptionKey, digestKey] = [keyFor("seal v1"), keyFor("name v1")];
  return {
    close(text, purpose) {
      const iv = randomBytes(ivBytes);
      const cipher = createCipheriv(algorithm, encryptionKey, iv).setAAD(Buffer.from(purpose));
      const closed = Buffer.concat([cipher.update(text), cipher.final()]);
      return versionPrefix + Buffer.concat([iv, cipher.getAuthTag(), closed]).toString("base64url");
    },

    open(sealed, purpose) {
      if (!sealed.startsWith(versionPrefix)) return undefined;
      const bytes = Buffer.from(sealed.slice(versionPrefix.length), "base64url");
      if (bytes.length < ivBytes + tagBytes) return undefined;
      const decipher = createDecipheriv(algorithm, encryptionKey, bytes.subarray(0, ivBytes)).setAAD(
        Buffer.from(purpose),
      );
      decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
      try {
        return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]);
      } catch {
        return undefined;
      }
    },

    digestOf: (text) => createHmac("sha256", digestKey).update(text).digest("hex").slice(0, 32),
  };
}
