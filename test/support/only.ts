/** A port with these methods alone; the test calls no other. */
export function only<Port>(methods: Partial<Port>): Port {
  return methods as Port;
}
