/** A text that must not be printed. It hides itself from string conversion, JSON and inspection. */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The text itself, for the one place that needs it. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return hiddenText;
  }

  toJSON(): string {
    return hiddenText;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return hiddenText;
  }
}

/** Shown instead of a secret. */
export const hiddenText = "<hidden>";
