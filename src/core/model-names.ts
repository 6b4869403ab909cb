/**
 * Returns a name of a model as Farebox compares spellings: without letter case, compatibility forms such as full-width
 * letters, and spaces at its ends.
 */
export function fold(name: string): string {
  // ASCII has no compatibility forms. Names are ASCII almost always, and `normalize` is slow.
  const compatible = ascii.test(name) ? name : name.normalize("NFKC");
  return compatible.toLowerCase().trim();
}

const ascii = /^[ -~]*$/;

/**
 * Returns the folded names that a text may spell, the most exact first: the text, then without its date or revision, then
 * both without its provider.
 */
export function foldedForms(text: string): string[] {
  const whole = fold(text);
  const bare = bareName(whole);
  return [whole, baseName(whole), bare, baseName(bare)].filter((form) => form !== undefined);
}

/** Returns a name without its provider: "gpt-4o" for "openai/gpt-4o". */
export function bareName(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}

/** Returns the name without its variant: "openai/gpt-4o" for "openai/gpt-4o:nitro". Undefined for a name without one. */
export function withoutVariant(name: string): string | undefined {
  const colon = name.indexOf(":", name.lastIndexOf("/") + 1);
  return colon === -1 ? undefined : name.slice(0, colon);
}

/**
 * Matches a name with the suffix of a dated or numbered snapshot: `-2024-11-20`, `-20260101`, `@20260101`, `-0613`,
 * `-001` or `-latest`. Does not match words such as `-mini` or `-audio-preview`, which name a different model.
 */
const revision = /^(.+?)(?:-(\d{4})-(\d{2})-(\d{2})|[-@](\d{4})(\d{2})(\d{2})|-(\d{2})(\d{2})|-0\d{2}|[-@]latest)$/;

/** Length of the longest name that a price file may state. */
const nameLengthMax = 128;

/**
 * Returns the name without its date or revision; undefined for a name without such a suffix. Removes at most one
 * suffix.
 */
export function baseName(name: string): string | undefined {
  if (name.length > nameLengthMax) return undefined;
  const match = revision.exec(name);
  if (match === null) return undefined;
  const [, base, isoYear, isoMonth, isoDay, year, month, day, shortMonth, shortDay] = match;
  const datedYear = isoYear ?? year;
  if (datedYear !== undefined && (datedYear < "2020" || datedYear > "2099")) return undefined;
  const datedMonth = isoMonth ?? month ?? shortMonth;
  const datedDay = isoDay ?? day ?? shortDay;
  if (datedMonth !== undefined && (datedMonth < "01" || datedMonth > "12")) return undefined;
  if (datedDay !== undefined && (datedDay < "01" || datedDay > "31")) return undefined;
  return base;
}
