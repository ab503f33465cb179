/** Whether a payload holds what the server shows in the place of secrets; sent back, it would become the secret. */
export const masked = (text: string): boolean => /:\s*"\*\*\*"/.test(text);
