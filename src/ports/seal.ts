/** Encrypts texts with a key derived from the gateway's key, so that the database alone does not reveal them. */
export interface Seal {
  /** `purpose`: what it is and whose; it must be opened as the same. */
  close(text: Uint8Array, purpose: string): string;
  /** Undefined for what was closed with another key or for another purpose, or was changed since. */
  open(sealed: string, purpose: string): Buffer | undefined;
  /** A name for a text that tells nothing of it to who has not the key: the same for the same text. 32 hexadecimal digits. */
  nameOf(text: string): string;
}
