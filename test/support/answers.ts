/** Error object of a Farebox error answer. */
interface ErrorBody {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  readonly metadata?: Readonly<Record<string, string | number | null>>;
}

export async function errorOf(response: Response): Promise<ErrorBody> {
  const { error } = (await response.json()) as { error: ErrorBody };
  return error;
}
