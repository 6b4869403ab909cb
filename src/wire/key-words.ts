/** Statuses with which a gateway may refuse a key. 400 and 403 need words that say so; a 401 may need none. */
export const keyStatuses: ReadonlySet<number> = new Set([400, 401, 403]);

const gap = "[\\s_-]*";
const key = `(?:x-)?(?:api|access|authentication|authorization|auth|bearer)${gap}(?:key|token|credentials?)s?`;
const bad = `(?:invalid|incorrect|wrong|unknown|expired|revoked|disabled|deactivated|suspended|malformed|unrecognized)`;
const isBad = `(?:not${gap}(?:valid|found|recognized|active)|does not exist|${bad})`;

/**
 * Texts that say that a key is not accepted: "Incorrect API key provided", `invalid_api_key`, `API_KEY_INVALID`,
 * "无效的令牌". A text must begin with such words, because it may repeat words of the request later. A text about a key that
 * is not valid only for a model or a region does not match.
 */
const refusals: readonly RegExp[] = [
  new RegExp(
    `^(?:(?:unauthorized|authentication error|error)\\W+)?(?:an? )?(?:no|missing|${bad})${gap}(?:(?:or|and) ${bad}${gap})?${key}(?![a-z]| for)`,
    "i",
  ),
  new RegExp(
    `^(?:the |your |this )?(?:provided |given )?${key}(?: [^\\s.]{1,80})?${gap}(?:is |was |has |been |has been )?${isBad}(?! (?:for|in|on|to) )`,
    "i",
  ),
  /^account_deactivated$|^invalid_authentication$/i,
  /^(?:无效的?|错误的?)(?:令牌|密钥|api ?key)|^(?:该|此)?(?:令牌|密钥|api ?key).{0,4}(?:无效|过期|不可用|禁用|不存在|错误)/i,
];

/** Returns true if a code or a message of an error says that a key is not accepted. */
export function saysKeyIsRefused(text: string): boolean {
  const trimmed = text.trim();
  return refusals.some((pattern) => pattern.test(trimmed));
}
