import { HoldfastError } from "./error.js";
import type { ChangeList, Client } from "./index.js";

/** The parts of an extension's `chrome` or `browser` that are used. They need the permissions "alarms" and "storage". */
export interface ExtensionAPI {
  alarms: {
    create(name: string, alarm: { periodInMinutes: number }): unknown;
    clear(name: string): unknown;
    onAlarm: { addListener(listener: (alarm: { name: string }) => void): void };
  };
  storage: {
    local: {
      get(key: string): Promise<{ [key: string]: unknown }>;
      set(items: { [key: string]: unknown }): Promise<void>;
    };
  };
}

/** How to follow changes in a background worker. */
export interface FollowOptions {
  /** `chrome`, or in Firefox `browser`. */
  extension: ExtensionAPI;
  /**
   * Reads all records, to replace the extension's copy: at the first start, and after CHANGES_EXPIRED. The changes made meanwhile
   * follow.
   */
  reload: () => void | Promise<void>;
  /** Applies a page of changes. It gets a page again if the worker ended before the page was applied. */
  apply: (page: ChangeList) => void | Promise<void>;
  /** Called with an error of `apply`, `reload` or the server. The feed starts again with the next alarm. Default: console.error. */
  onError?: (error: unknown) => void;
  /** Name of the alarm, and of the item in `storage.local` with the number to continue from; default "holdfast-changes". */
  name?: string;
}

/**
 * Seconds that a request is held. Browsers end a worker after 30 s without an event or a call of the extension's API, or if a
 * response takes 30 s (https://developer.chrome.com/docs/extensions/develop/concepts/service-workers/lifecycle).
 */
const wait = 20;

/** Minutes between alarms: the shortest period that Chrome allows. */
const period = 0.5;

/**
 * Follows changes in the background worker of an extension (Manifest V3), which the browser ends at any time. Call it while the
 * worker's script is evaluated, at its top level, so that an alarm can start the worker. Each request ends after 20 s, and the
 * number to continue from is then stored, which also keeps the worker alive. An alarm starts an ended worker and an ended feed
 * within 30 s. Returns a function that ends the feed for good.
 */
export function followChanges(client: Client, { extension, reload, apply, onError = console.error, name = "holdfast-changes" }: FollowOptions): () => void {
  const { alarms, storage } = extension;
  const stop = new AbortController();
  const save = (since: number): Promise<void> => storage.local.set({ [name]: since });
  const restart = async (): Promise<number> => {
    const since = await client.lastChange({ signal: stop.signal });
    await reload();
    await save(since);
    return since;
  };
  const run = async (): Promise<void> => {
    const stored = (await storage.local.get(name))[name];
    const since = typeof stored === "number" ? stored : await restart();
    for await (const page of client.changes({ since, wait, empty: true, signal: stop.signal })) {
      if (page.changes.length > 0) {
        await apply(page);
      }
      await save(Number(page.nextSince));
    }
  };
  let running = false;
  const start = async (): Promise<void> => {
    if (running || stop.signal.aborted) {
      return;
    }
    running = true;
    try {
      await run().catch((e) => (e instanceof HoldfastError && e.code === "CHANGES_EXPIRED" ? restart().then(run) : Promise.reject(e)));
    } catch (e) {
      if (!stop.signal.aborted) {
        onError(e);
      }
    } finally {
      running = false;
    }
  };
  alarms.onAlarm.addListener((alarm) => void (alarm.name === name && start()));
  alarms.create(name, { periodInMinutes: period });
  void start();
  return () => {
    stop.abort();
    alarms.clear(name);
  };
}
