/**
 * Suffixes that name a dated or numbered snapshot of a model: `-2024-11-20`, `-20260101`, `@20260101`, `-0613`,
 * `-001`, `-latest`. Words (`-mini`, `-audio-preview`) name another model and are none of them.
 */
const revision = /^(.+?)(?:-(\d{4})-(\d{2})-(\d{2})|[-@](\d{4})(\d{2})(\d{2})|-(\d{2})(\d{2})|-0\d{2}|[-@]latest)$/;

const nameLengthMax = 128;

/** The name without its date or revision; undefined where it has none. One suffix is taken off, never two. */
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
