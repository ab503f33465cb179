/** Whether a payload contains the mask of secrets; sent back, the mask would become the secret. */
export const masked = (text: string): boolean => /:\s*"\*\*\*"/.test(text);
