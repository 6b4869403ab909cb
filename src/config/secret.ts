/** Text that must not be printed. Conversion to a string, JSON and inspection show `hiddenText` instead. */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the text itself. Call it only where the text is used. */
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

/** Text that replaces a secret in output. */
export const hiddenText = "<hidden>";
