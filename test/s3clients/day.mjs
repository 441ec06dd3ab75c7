// Exercises the AWS SDK for JavaScript.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import {
  AbortMultipartUploadCommand, CopyObjectCommand, CreateBucketCommand, CreateMultipartUploadCommand, DeleteBucketCommand,
  DeleteObjectCommand, DeleteObjectsCommand, GetObjectCommand, HeadObjectCommand, ListMultipartUploadsCommand, NoSuchKey,
  PutObjectCommand, S3Client, UploadPartCommand, paginateListObjectsV2,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const MiB = 1 << 20;
const Bucket = process.env.BUCKET;
const s3 = new S3Client({ endpoint: process.env.ENDPOINT, forcePathStyle: true, maxAttempts: 1 });
const send = (Command, input) => s3.send(new Command({ Bucket, ...input }));
const get = async (Key) => Buffer.from(await (await send(GetObjectCommand, { Key })).Body.transformToByteArray());
// A stream whose length the SDK does not know.
const stream = (data) => Readable.from((function* () { for (let i = 0; i < data.length; i += 100_000) yield data.subarray(i, i + 100_000); })());

await send(CreateBucketCommand);
const day = {};
for (const name of ["empty", "note.txt", "photos/b +c ü%.jpg", "photos/2026/it's.jpg", "photos/2026-index", "big.bin"]) {
  day[name] = await readFile(`${process.env.FOLDER}/day/${name}`);
}
for (const [name, Body] of Object.entries(day)) {
  await send(PutObjectCommand, { Key: "day/" + name, Body, Metadata: { author: "me" } });
  assert.deepEqual(await get("day/" + name), Body, name);
}
const big = day["big.bin"], note = day["note.txt"];

const keys = [];
for await (const page of paginateListObjectsV2({ client: s3, pageSize: 2 }, { Bucket, Prefix: "day/" })) {
  keys.push(...page.Contents.map((o) => o.Key));
}
assert.deepEqual(keys.sort(), Object.keys(day).map((name) => "day/" + name).sort());

await new Upload({ client: s3, params: { Bucket, Key: "piped", Body: stream(big) }, partSize: 5 * MiB }).done();
assert.deepEqual(await get("piped"), big);
await send(PutObjectCommand, { Key: "stream", Body: stream(day["photos/b +c ü%.jpg"]), ContentLength: 100_000 });
assert.deepEqual(await get("stream"), day["photos/b +c ü%.jpg"]);
for (const ChecksumAlgorithm of ["CRC32C", "SHA256"]) {
  await send(PutObjectCommand, { Key: "checked", Body: note, ChecksumAlgorithm });
  assert.ok((await send(HeadObjectCommand, { Key: "checked", ChecksumMode: "ENABLED" }))["Checksum" + ChecksumAlgorithm]);
  assert.deepEqual(await get("checked"), note);
}
await send(CopyObjectCommand, { Key: "copy", CopySource: encodeURIComponent(`${Bucket}/day/photos/b +c ü%.jpg`) });
assert.deepEqual(await get("copy"), day["photos/b +c ü%.jpg"]);
await assert.rejects(send(GetObjectCommand, { Key: "absent" }), NoSuchKey);
await assert.rejects(send(PutObjectCommand, { Key: "copy", Body: "x", IfNoneMatch: "*" }), { name: "PreconditionFailed" });

const put = await getSignedUrl(s3, new PutObjectCommand({ Bucket, Key: "linked" }), { expiresIn: 60 });
const answer = await fetch(put, { method: "PUT", body: note });
assert.equal(answer.status, 200, await answer.text());
const link = await fetch(await getSignedUrl(s3, new GetObjectCommand({ Bucket, Key: "linked" })));
assert.deepEqual(Buffer.from(await link.arrayBuffer()), note);

const { UploadId } = await send(CreateMultipartUploadCommand, { Key: "never" });
await send(UploadPartCommand, { Key: "never", UploadId, PartNumber: 1, Body: note });
assert.equal((await send(ListMultipartUploadsCommand)).Uploads.length, 1);
await send(AbortMultipartUploadCommand, { Key: "never", UploadId });

await assert.rejects(send(DeleteBucketCommand), { name: "BucketNotEmpty" });
await send(DeleteObjectCommand, { Key: "absent" });
const all = [...keys, "piped", "stream", "checked", "copy", "linked"].map((Key) => ({ Key }));
assert.equal((await send(DeleteObjectsCommand, { Delete: { Objects: all } })).Deleted.length, all.length);
await send(DeleteBucketCommand);
console.log("done");
