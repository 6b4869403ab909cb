/**
 * Ordinary words of texts: lower-case ASCII letters, perhaps with a capital before them. All tokenizers divide them into
 * similar numbers of tokens, so another tokenizer than the model's can count them.
 */
export interface Words {
  /** The words, each with the single space before it. A word without a space before it follows a line feed. */
  readonly text: string;
  /** Number of line feeds in `text`. */
  readonly breaks: number;
  /** Number of bytes of the words and their spaces. */
  readonly bytes: number;
}

const word = / ?[A-Z]?[a-z]+/g;

/** Longest run of letters that counts as a word. A longer one is data. */
const wordLettersMax = 24;

/** Letter three times in a row. Tokenizers differ on repetitions. */
const repetition = /(.)\1\1/;

/** Returns the ordinary words of texts: "\nPay for camel\nCase" for "Pay 20 USD for camelCase". */
export function wordsIn(texts: readonly string[]): Words {
  const words: string[] = [];
  let breaks = 0;
  let bytes = 0;
  for (const text of texts)
    for (const found of text.match(word) ?? []) {
      if (found.length > wordLettersMax || repetition.test(found)) continue;
      bytes += found.length;
      if (found.startsWith(" ")) words.push(found);
      else {
        words.push(`\n${found}`);
        breaks++;
      }
    }
  return { text: words.join(""), breaks, bytes };
}
