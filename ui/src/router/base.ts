/** Where the application lives, with a slash at its end: the server writes it into the page. */
export const base = new URL(".", document.baseURI).pathname;
