// Continues with what a client knows from a lost server, whose last writes the restored server lacks. test/clients sets
// the number of the last change, and a record's ETag and revision.
import assert from "node:assert/strict";

import { HoldfastError, createClient } from "@holdfast/ext-storage";

const { BASE_URL: baseUrl = "", INSTALL: install = "", TOKEN: token = "", SINCE = "", ETAG: ifMatch = "", REVISION = "" } = process.env;
assert.ok(baseUrl && install && token && SINCE && ifMatch && REVISION, "test/clients sets the environment of this test");
const client = createClient({ baseUrl, install, token });
const life = client.namespace("life");

/**
 * Returns a check of a thrown error.
 * @param {string} code
 * @returns {(e: unknown) => boolean}
 */
const error = (code) => (e) => e instanceof HoldfastError && e.code === code;

for (const when of ["before", "after"]) {
  await assert.rejects(async () => {
    for await (const page of client.changes({ since: Number(SINCE) })) {
      assert.fail(`${when} the next write: a follower of the lost server gets ${JSON.stringify(page)}`);
    }
  }, error("CHANGES_EXPIRED"));
  await assert.rejects(life.put("a", "mine", { ifMatch }), error("REVISION_MISMATCH"));
  await assert.rejects(life.put("a", "mine", { ifRevision: Number(REVISION) }), error("REVISION_MISMATCH"));
  await life.put("a", "another");
}
// It reads everything again, and follows.
const since = await client.lastChange();
const { revision } = await life.put("a", "next");
for await (const { changes } of client.changes({ since })) {
  assert.deepEqual(changes.map((c) => c.revision), [revision]);
  break;
}
console.log("restored");
