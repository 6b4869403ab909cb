import { get_encoding, type Tiktoken } from "tiktoken";
import { pick, type Random } from "./random.ts";

/** Piece of an answer's text, with its number of o200k_base tokens. */
export interface Piece {
  readonly text: string;
  readonly tokens: number;
}

type Words = readonly [string, ...string[]];

/*
 * Each entry below is one token of o200k_base, even next to other entries. So a text of n entries has n tokens and need
 * not be tokenized. Some entries have characters of several bytes, to test cuts within a character.
 */
const opening = words("", "The A Every This One Each Some Our Their Another");
const determiner = words(" ", "the a every this one each our their another its");
const adjective = words(
  " ",
  `quiet small early northern open narrow bright patient old yellow green distant careful empty late
   simple long cold warm busy`,
);
const noun = words(
  " ",
  `harbour train station ticket window river café morning bridge driver letter market garden clock
   passenger street résumé line map city season journey lamp fare coin machine road tram façade señor
   cliché`,
);
const verb = words(
  " ",
  `carries keeps turns holds finds follows leaves crosses remembers counts opens passes reaches meets
   watches brings takes`,
);
const link = words(" ", "and while because before after until where but so");
const preposition = words(" ", "near beyond under along behind across beside toward past");

/** Splits a list at its spaces, and puts `lead` before each word. */
function words(lead: "" | " ", list: string): Words {
  return list.split(/\s+/).map((word) => lead + word) as unknown as Words;
}

/** Yields endless prose, one token at a time. */
export function* prose(random: Random): Generator<Piece, never> {
  const one = (list: Words) => ({ text: pick(random, list), tokens: 1 });
  let paragraph = true;
  for (;;) {
    const first = one(opening);
    yield paragraph ? first : { text: ` ${first.text}`, tokens: 1 };
    yield one(adjective);
    yield one(noun);
    yield one(verb);
    yield one(determiner);
    if (random() < 0.5) yield one(adjective);
    yield one(noun);
    if (random() < 0.4) for (const list of [preposition, determiner, noun]) yield one(list);
    if (random() < 0.4) {
      yield { text: random() < 0.8 ? "," : " —", tokens: 1 };
      for (const list of [link, determiner, noun, verb, determiner, noun]) yield one(list);
    }
    paragraph = random() < 0.25;
    if (random() < 0.05) yield { text: " 😊", tokens: 1 };
    else yield { text: paragraph ? ".\n\n" : ".", tokens: 1 };
  }
}

let encoder: Tiktoken | undefined;

/** Returns the shared encoder. Its first use builds it, which takes about 0.1 s. It is never freed. */
function o200k(): Tiktoken {
  encoder ??= get_encoding("o200k_base");
  return encoder;
}

/*
 * The tokenizer takes quadratic time on a long word. Cutting after a letter or digit at the end of a word does not
 * change the count. Words of more than 1,024 characters are cut anywhere.
 */
const safePart = /[\s\S]{512,1024}?(?<=[\p{L}\p{N}])(?![\p{L}\p{N}\p{M}'’])|[\s\S]{1,1024}/gu;

/** Counts the o200k_base tokens of any text. */
export function countTokens(text: string): number {
  if (text.length <= 1024) return text === "" ? 0 : o200k().encode_ordinary(text).length;
  let total = 0;
  for (const [part] of text.matchAll(safePart)) total += o200k().encode_ordinary(part).length;
  return total;
}

/** Splits ASCII text into its tokens. In other text a token may be half a character. */
export function tokenPieces(text: string): Piece[] {
  const decoder = new TextDecoder();
  return Array.from(o200k().encode_ordinary(text), (token) => ({
    text: decoder.decode(o200k().decode(new Uint32Array([token]))),
    tokens: 1,
  }));
}
