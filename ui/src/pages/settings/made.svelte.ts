// The token that was just made. It lives outside of its page: the first token of a server ends sessions without one,
// and its text must not go with them.
import type { CreatedToken } from "../../api/types";

class Made {
  token: CreatedToken | null = $state.raw(null);
}

export const made = new Made();
