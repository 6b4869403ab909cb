/** Encrypts texts with a key derived from the gateway's key, so that the database alone does not reveal them. */
export interface Seal {
  /** Encrypts a text. `purpose`: what the text is and whose; `open` needs the same purpose. */
  close(text: Uint8Array, purpose: string): string;
  /** Decrypts a text; undefined if the key or purpose differs, or the sealed text was changed. */
  open(sealed: string, purpose: string): Buffer | undefined;
  /** Returns 32 hexadecimal digits, equal for equal texts. They reveal nothing about the text without the key. */
  nameOf(text: string): string;
}
