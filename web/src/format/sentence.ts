// sentence begins with a capital; a text without one is no sentence of its own.
export function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
