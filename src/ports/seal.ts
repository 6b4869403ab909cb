/** Encrypts texts with a key derived from the gateway's key, so that the database alone does not reveal them. */
export interface Seal {
  /** Encrypts a text. `purpose` names the kind and the owner of the text. `open` needs the same purpose. */
  close(text: Uint8Array, purpose: string): string;
  /** Decrypts a text; undefined if the key or purpose differs, or the sealed text was changed. */
  open(sealed: string, purpose: string): Buffer | undefined;
  /** Returns a keyed digest of 32 hexadecimal digits. Without the key it reveals nothing about the text. */
  digestOf(text: string): string;
}
