/** Returns a port with only these methods; the test calls no other. */
export function only<Port>(methods: Partial<Port>): Port {
  return methods as Port;
}
