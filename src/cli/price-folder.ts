/** The word for the shipped prices alone, where a folder of price files can be named; a folder of that name is `./shipped`. */
export const shippedWord = "shipped";

/** The folder to read over the shipped files; null for none. */
export function priceFolder(word: string): string | null {
  return word === shippedWord ? null : word;
}
