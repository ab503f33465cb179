import type { Snippet } from "svelte";

/** One column of a DataTable. */
export interface Column<Row> {
  name: string;
  label: string;
  cell: Snippet<[Row]>;
  /** What the API calls this order; the heading then sorts. */
  sort?: string;
  /** Left out where the page is narrow. */
  wide?: boolean;
}
