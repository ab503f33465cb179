// The pages of the navigation, in its order, with their keys.
import type { PageName } from "../router/router.svelte";

export interface Place {
  page: PageName;
  /** Other pages that belong to it. */
  also: PageName[];
  path: string;
  label: string;
  key: string;
  icon: string;
}

export const PLACES: readonly Place[] = [
  { page: "overview", also: [], path: "./", label: "Overview", key: "o", icon: "M3 12 12 4l9 8M6 10v9h12v-9" },
  { page: "jobs", also: ["job"], path: "jobs", label: "Jobs", key: "j", icon: "M4 6h16M4 12h16M4 18h10" },
  { page: "reviews", also: [], path: "reviews", label: "Reviews", key: "v", icon: "M4 12l5 5L20 6" },
  { page: "errors", also: [], path: "errors", label: "Errors", key: "e", icon: "M12 4 3 20h18zM12 10v4M12 17v.5" },
  { page: "definitions", also: ["definition"], path: "definitions", label: "Definitions", key: "d", icon: "M8 5 3 12l5 7M16 5l5 7-5 7" },
  { page: "schedules", also: ["schedule"], path: "schedules", label: "Schedules", key: "s", icon: "M12 3a9 9 0 1 0 .01 0M12 7v5l3 3" },
  { page: "workers", also: [], path: "workers", label: "Workers", key: "w", icon: "M4 5h16v6H4zM4 13h16v6H4zM7 8h.01M7 16h.01" },
  { page: "webhooks", also: ["webhook"], path: "webhooks", label: "Webhooks", key: "h", icon: "M4 12h10M10 7l5 5-5 5M19 5v14" },
  { page: "alerts", also: [], path: "alerts", label: "Alerts", key: "a", icon: "M6 17V11a6 6 0 1 1 12 0v6l2 2H4zM10 21h4" },
  { page: "settings", also: [], path: "settings", label: "Settings", key: ",", icon: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4" },
];
