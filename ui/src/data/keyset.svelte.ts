// A list that the server gives page by page, the newest first. Rows are changed in place; new ones wait to be let in.
export interface Page<Row> {
  rows: Row[];
  cursor: string | null;
}

export class Keyset<Row> {
  rows: Row[] = $state.raw([]);
  /** How many rows have come that are not shown yet. */
  fresh = $state(0);
  loaded = $state(false);
  problem: unknown = $state.raw(null);
  private cursor: string | null = null;
  private reading = false;
  private again = false;
  private loading = false;
  private over = false;

  /** `calm` says whether new rows may be let in by themselves. */
  constructor(
    private readonly page: (cursor: string | null) => Promise<Page<Row>>,
    private readonly id: (row: Row) => string | number,
    private readonly calm: () => boolean = () => true,
  ) {}

  /** Nothing is read or shown any more. */
  end(): void {
    this.over = true;
  }

  /** Look at the first page; rows that are shown already are brought up to date. */
  async read({ letIn = false } = {}): Promise<void> {
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    try {
      const page = await this.page(null);
      if (!this.over) this.take(page, letIn || !this.loaded || this.calm());
    } catch (error) {
      if (!this.over) this.problem = error;
    }
    this.loaded = true;
    this.reading = false;
    if (this.again && !this.over) {
      this.again = false;
      await this.read();
    }
  }

  /** The next page, when there is one. */
  async more(): Promise<void> {
    if (this.loading || this.cursor === null) return;
    this.loading = true;
    const from = this.cursor;
    try {
      const page = await this.page(from);
      if (this.cursor === from && !this.over) {
        const there = new Set(this.rows.map(this.id));
        this.rows = [...this.rows, ...page.rows.filter((each) => !there.has(this.id(each)))];
        this.cursor = page.cursor;
      }
    } catch (error) {
      this.problem = error;
    } finally {
      this.loading = false;
    }
  }

  private take(page: Page<Row>, whole: boolean): void {
    this.problem = null;
    if (whole) {
      this.rows = page.rows;
      this.cursor = page.cursor;
      this.fresh = 0;
      return;
    }
    const news = new Map(page.rows.map((each) => [this.id(each), each]));
    const there = new Set(this.rows.map(this.id));
    this.fresh = page.rows.filter((each) => !there.has(this.id(each))).length;
    this.rows = this.rows.map((each) => news.get(this.id(each)) ?? each);
  }
}

/** Call something again and again, but only while the page is seen; the answer ends it. */
export function whileSeen(milliseconds: number, call: () => unknown): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) void call();
  }, milliseconds);
  return () => clearInterval(timer);
}
