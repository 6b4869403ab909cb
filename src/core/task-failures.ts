/**
 * Reasons of task failures, as far as their free texts are understood (gateway interface, section 7). `other`: none of
 * these.
 */
export const taskFailures = [
  "input_media",
  "request_format",
  "network",
  "upstream_no_credit",
  "upstream_rate_limit",
  "upstream_overload",
  "time_limit",
  "private_pool_only",
  "no_private_account",
  "plan_lacks_access",
  "image_quota",
  "upstream_timeout",
  "redirect",
  "content_refused",
  "other",
] as const;
export type TaskFailure = (typeof taskFailures)[number];

/**
 * Patterns of each reason, in the order in which they are tried: specific ones first. Texts are compared in lower case.
 */
const meanings: readonly (readonly [TaskFailure, RegExp])[] = [
  [
    "no_private_account",
    /no (?:available|connected|usable|active).{0,40}account|account.{0,40}private (?:group|pool)|private group.{0,60}account/,
  ],
  [
    "private_pool_only",
    /(?:not |un)support\w* (?:in|for|under|by) (?:the )?(?:ppu|pay[- ]as[- ]you[- ]go)|(?:byoa|host[- ]your[- ]account) (?:mode )?only|only (?:available |supported )?(?:in|for|with) (?:the )?(?:byoa|host[- ]your)/,
  ],
  [
    "plan_lacks_access",
    /plan.{0,60}(?:access|support|allow|include|permi|upgrade)|upgrade (?:your|the) (?:plan|subscription)|subscription.{0,40}(?:access|require)/,
  ],
  [
    "image_quota",
    /image.{0,30}quota|quota.{0,40}(?:image|not enough|insufficient)|insufficient.{0,20}quota|user quota/,
  ],
  [
    "upstream_no_credit",
    /(?:no|not enough|insufficient|out of|lack of|run out of) (?:\w+ )?(?:credit|balance|fund|point)|credit.{0,30}(?:insufficient|not enough|exhausted|used up)|payment required/,
  ],
  ["upstream_rate_limit", /rate.?limit|too many requests|\b429\b|too many (?:running|concurrent)/],
  ["upstream_timeout", /\b(?:524|504)\b|gateway time.?out/],
  ["time_limit", /context deadline|deadline exceeded|time allowance|exceeded.{0,30}time|time limit|ran too long/],
  [
    "input_media",
    /(?:download|fetch|load|decode|verify|access|read|retrieve|identify).{0,40}(?:image|video|audio|media|file|picture|url)|(?:image|video|audio|media|file|picture).{0,60}(?:cannot|can not|can't|could not|couldn't|fail|invalid|unknown|unsupported|not (?:be |a )?(?:valid|supported|accessible|found))|(?:unknown|unsupported|invalid) (?:image|video|audio|media|file)/,
  ],
  [
    "request_format",
    /json.{0,40}(?:unmarshal|mismatch|parse|type|syntax|invalid)|(?:un)?marshal|cannot parse|type mismatch|invalid (?:request|parameter|param|argument|body|input)|expected format|bad request|missing (?:required )?(?:field|parameter)/,
  ],
  ["redirect", /\b307\b|temporary redirect/],
  [
    "upstream_overload",
    /overload|server (?:is )?busy|at capacity|service unavailable|\b503\b|high (?:demand|load)|try again later/,
  ],
  [
    "network",
    /handshake|connection (?:reset|refused|closed|timed out)|network|\btls\b|\beof\b|broken pipe|no such host|i\/o timeout|time.?out|timed out/,
  ],
  [
    "content_refused",
    /moderat|nsfw|sensitive|policy|prohibited|inappropriate|unsafe|copyright|flagged|content (?:filter|check|violat)/,
  ],
];

/** Returns the reason of a failed task: that of the first text that matches one. */
export function failureReason(texts: readonly string[]): TaskFailure {
  for (const text of texts) {
    const found = meanings.find(([, words]) => words.test(text.toLowerCase()));
    if (found !== undefined) return found[0];
  }
  return "other";
}
