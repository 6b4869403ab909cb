import * as fc from "fast-check";
import { expect, it } from "vitest";
import { Running } from "../../../src/proxy/running.ts";

it("has what was added and not removed, whatever the order", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20)), (steps) => {
      const running = new Running<{ place: number; readonly name: number }>();
      const expected = new Map<number, { place: number; readonly name: number }>();
      for (const name of steps) {
        const known = expected.get(name);
        if (known === undefined) {
          const item = { place: -1, name };
          expected.set(name, item);
          running.add(item);
        } else {
          expected.delete(name);
          running.remove(known);
        }
        expect(
          running
            .all()
            .map((item) => item.name)
            .sort(),
        ).toEqual([...expected.keys()].sort());
      }
    }),
  );
});
