import { z } from "zod";
import { namePattern } from "../core/keys.ts";

const shape = "must be 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or a digit";

/** A name of a key, team or admin. */
export const nameSchema = z.string(shape).regex(namePattern, shape);
