// Tests the handoff verifier with the test vectors of client/handoff, hostile tokens and key sets, and a real server, which
// test/clients starts.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { createGuestClient } from "@holdfast/ext-storage/guest";
import { HandoffTokenError, createHandoffVerifier } from "@holdfast/ext-storage/handoff";

const tenant = "11111111-2222-4333-8444-555555555555";
const issuer = "https://guests.example";
const keySet = `https://guests.example/bff/consumer/v1/tenants/${tenant}/jwks.json`;
const minted = 1_790_000_000_000;

// The vector for a stay.
const vector =
  "eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIiwidHlwIjoiaGFuZG9mZitqd3QifQ.eyJpc3MiOiJodHRwczovL2d1ZXN0cy5leGFtcGxlIiwiYXVkIjoiMTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1Iiwic3ViIjoiZ21zXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdCIiwianRpIjoiYmhkXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdDIiwiaWF0IjoxNzkwMDAwMDAwLCJleHAiOjE3OTAwMDA2MDAsInByb3BlcnR5SWQiOiI5OTk5OTk5OS0yMjIyLTQzMzMtODQ0NC01NTU1NTU1NTU1NTUiLCJjaGVja0luIjoiMjAyNi0xMi0zMCIsImNoZWNrT3V0IjoiMjAyNy0wMS0wMiIsImFkdWx0cyI6MiwiY2hpbGRyZW4iOjEsInJvb21zIjoxLCJjdXJyZW5jeSI6IkVVUiIsImxvY2FsZSI6ImRlLUFUIiwiZmluZ2VycHJpbnQiOiJSSVk3QS1tUW0zRUE0RnNDVW1rSm8wYjlkRlVZUDJZWjRQNWhtTWlaZ2VBIiwiaXAiOiJ1NXIxMFpGZG9mdkJNczdRZ1RKZV9OTG1Qa2dFLVdpUTlDNlhPV2R5TjZRIn0.ly9W-cetYZ-cbUCwzatHbOmvVFkTAnh5KZDlRU-NTRzOYz5DqfWGptThmm_O5RTLn-oCPE7PLqPo7FhBZeglCg";

// The vector for a payload.
const cart =
  "eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIiwidHlwIjoiaGFuZG9mZitqd3QifQ.eyJpc3MiOiJodHRwczovL2d1ZXN0cy5leGFtcGxlIiwiYXVkIjoiMTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1Iiwic3ViIjoiZ21zXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdCIiwianRpIjoiYmhkXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdDIiwiaWF0IjoxNzkwMDAwMDAwLCJleHAiOjE3OTAwMDA2MDAsIml0ZW1JZCI6InNrdS00NzExIiwiY3VycmVuY3kiOiJFVVIiLCJsb2NhbGUiOiJkZS1BVCIsImZpbmdlcnByaW50IjoiUklZN0EtbVFtM0VBNEZzQ1Vta0pvMGI5ZEZVWVAyWVo0UDVobU1pWmdlQSIsImlwIjoidTVyMTBaRmRvZnZCTXM3UWdUSmVfTkxtUGtnRS1XaVE5QzZYT1dkeU42USIsInBheWxvYWQiOiI3dlJuUWEzOE9wOTJLVTA3ZVBONlJmRVRDU3JKMUU3bmZIb0Rpb2pfQ2FFIn0.DD9VHxfng9bNBY6x95qA8n6qBD0CACSSmstqFRoq8ZyaAxtAxTZK4CfDmWB8dl_avaXlt4iGM8XXMJzbiswFAQ";
const published = '{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","alg":"EdDSA","x":"Oo1ydMv1avgMvMuXt6twT53MsoU2PwnqgEsHbLkfhmM"}]}';

/** Returns a verifier with a fake server and clock. */
function site(/** @type {Partial<import("@holdfast/ext-storage/handoff").HandoffVerifierOptions>} */ options = {}) {
  const wire = { now: minted, fetches: 0, body: published, status: 200, headers: /** @type {Record<string, string>} */ ({ "Cache-Control": "public, max-age=300" }) };
  const verifier = createHandoffVerifier({
    keySet,
    issuer,
    tenant,
    now: () => wire.now,
    fetch: async (url) => {
      wire.fetches++;
      assert.equal(url, keySet);
      if (wire.status === 0) throw new TypeError("fetch failed");
      return new Response(wire.body, { status: wire.status, headers: wire.headers });
    },
    ...options,
  });
  return { wire, verifier };
}

/** @param {string} code */
const refused = (code) => (/** @type {unknown} */ e) => {
  assert.ok(e instanceof HandoffTokenError, String(e));
  assert.equal(e.code, code);
  return true;
};

const base64 = (/** @type {string | Uint8Array} */ v) => Buffer.from(v).toString("base64url");

test("the vector is verified", async () => {
  const { verifier } = site();
  const { mintedAt, expiresAt, fingerprint, ip, ...claims } = await verifier.verify(vector);
  assert.deepEqual(claims, {
    handoffId: "bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7C", sessionId: "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", tenantId: tenant, propertyId: "99999999-2222-4333-8444-555555555555",
    checkIn: "2026-12-30", checkOut: "2027-01-02", adults: 2, children: 1, rooms: 1, currency: "EUR", locale: "de-AT", campaign: undefined, keyId: "k1",
  });
  assert.equal(mintedAt.getTime(), minted);
  assert.equal(expiresAt.getTime(), minted + 600_000);
  assert.equal(Buffer.from(fingerprint, "base64url").length + Buffer.from(ip, "base64url").length, 64);
});

test("the vector of a payload is verified", async () => {
  const { verifier } = site();
  const { mintedAt, expiresAt, fingerprint, ip, ...claims } = await verifier.verify(cart);
  assert.deepEqual(claims, {
    handoffId: "bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7C", sessionId: "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", tenantId: tenant, itemId: "sku-4711",
    payload: createHash("sha256").update('{"items":[]}').digest("base64url"), currency: "EUR", locale: "de-AT", campaign: undefined, keyId: "k1",
  });
  assert.equal(mintedAt.getTime(), minted);
  assert.equal(expiresAt.getTime(), minted + 600_000);
  assert.equal(Buffer.from(fingerprint, "base64url").length + Buffer.from(ip, "base64url").length, 64);
});

test("a token has a stay or a payload", async () => {
  const own = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]));
  const { verifier, wire } = site();
  wire.body = JSON.stringify({ keys: [{ ...(await crypto.subtle.exportKey("jwk", own.publicKey)), kid: "k1", alg: "EdDSA", key_ops: undefined }] });
  const claims = (/** @type {string} */ token) => JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
  const [stay, item] = [claims(vector), claims(cart)];
  const verify = async (/** @type {object} */ c) => {
    const text = `${vector.split(".")[0]}.${base64(JSON.stringify(c))}`;
    return verifier.verify(`${text}.${base64(new Uint8Array(await crypto.subtle.sign("Ed25519", own.privateKey, Buffer.from(text))))}`);
  };
  assert.equal((await verify(stay)).propertyId, stay.propertyId);
  assert.equal((await verify(item)).itemId, "sku-4711");
  for (const itemId of ["a b", "Käse 10 %", "é".repeat(128)]) assert.equal((await verify({ ...item, itemId })).itemId, itemId);
  for (const mixed of [
    { ...stay, itemId: "sku-4711" }, { ...stay, payload: item.payload }, { ...stay, propertyId: undefined, itemId: stay.propertyId },
    { ...item, propertyId: stay.propertyId }, { ...item, payload: undefined }, { ...item, itemId: undefined }, { ...item, adults: 1 }, { ...item, children: 0 },
    { ...item, itemId: "" }, { ...item, itemId: "a\nb" }, { ...item, itemId: "a\u0085b" }, { ...item, itemId: "é".repeat(129) },
    { ...item, payload: "AAAA" }, { ...item, itemId: undefined, propertyId: "sku-4711" },
  ]) {
    await assert.rejects(verify(mixed), refused("malformed"));
  }
});

test("clocks may differ by 30 seconds", async () => {
  for (const [after, code] of /** @type {[number, string?][]} */ ([[-30_001, "not-yet-valid"], [-30_000], [0], [599_999], [600_000, "expired"]])) {
    const { wire, verifier } = site();
    wire.now = minted + after;
    await (code ? assert.rejects(verifier.verify(vector), refused(code)) : verifier.verify(vector));
  }
});

test("every bit counts", async () => {
  const { verifier } = site();
  for (let i = 0; i < vector.length; i++) {
    const changed = vector.slice(0, i) + String.fromCharCode(vector.charCodeAt(i) ^ (1 << i % 7)) + vector.slice(i + 1);
    await assert.rejects(verifier.verify(changed), HandoffTokenError);
    await assert.rejects(verifier.verify(vector.slice(0, i)), HandoffTokenError);
  }
  for (const changed of ["", vector + ".", vector + "=", ` ${vector}`, vector + "\n", "a".repeat(4000), vector.toUpperCase()]) {
    await assert.rejects(verifier.verify(changed), HandoffTokenError);
  }
});

test("no other algorithm and no other key is accepted", async () => {
  const { wire, verifier } = site();
  const [, payload] = vector.split(".");
  const own = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]));
  const ownKey = await crypto.subtle.exportKey("jwk", own.publicKey);
  const secret = await crypto.subtle.importKey("raw", Buffer.from(JSON.parse(published).keys[0].x, "base64url"), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  for (const [header, code] of /** @type {[Record<string, unknown>, string][]} */ ([
    [{ alg: "none", kid: "k1", typ: "handoff+jwt" }, "algorithm"], [{ alg: "HS256", kid: "k1", typ: "handoff+jwt" }, "algorithm"],
    [{ kid: "k1", typ: "handoff+jwt" }, "algorithm"], [{ alg: ["EdDSA"], kid: "k1", typ: "handoff+jwt" }, "algorithm"],
    [{ alg: "EdDSA", kid: "k2", typ: "handoff+jwt" }, "unknown-key"], [{ alg: "EdDSA", kid: "../k1", typ: "handoff+jwt" }, "malformed"],
    [{ alg: "EdDSA", kid: "k1", typ: "JWT" }, "malformed"], [{ alg: "EdDSA", kid: "k1", typ: "handoff+jwt", crit: ["exp"] }, "malformed"],
    [{ alg: "EdDSA", kid: "k1", typ: "handoff+jwt", jwk: ownKey, jku: "https://attacker.example/" }, "signature"],
  ])) {
    const text = `${base64(JSON.stringify(header))}.${payload}`;
    const bytes = Buffer.from(text);
    const mac = new Uint8Array(await crypto.subtle.sign("HMAC", secret, bytes));
    for (const signature of [new Uint8Array(await crypto.subtle.sign("Ed25519", own.privateKey, bytes)), Buffer.concat([mac, mac]), new Uint8Array(64)]) {
      await assert.rejects(verifier.verify(`${text}.${base64(signature)}`), refused(code));
    }
    await assert.rejects(verifier.verify(`${text}.`), HandoffTokenError);
    await assert.rejects(verifier.verify(`${text}.${base64(mac)}`), HandoffTokenError);
  }
  await assert.rejects(verifier.verify("bh1.k1.AA.AA"), refused("algorithm"));
  assert.equal(wire.fetches, 1);
});

test("issuer and tenant are pinned", async () => {
  await assert.rejects(site({ issuer: "https://other.example" }).verifier.verify(vector), refused("issuer"));
  await assert.rejects(site({ tenant: "33333333-2222-4333-8444-555555555555" }).verifier.verify(vector), refused("tenant"));
  for (const bad of [{ keySet: "http://guests.example/" }, { keySet: "https://user@guests.example/" }, { keySet: "x" }, { issuer: "" }, { tenant: "" }]) {
    assert.throws(() => site(bad), TypeError);
  }
  site({ keySet: "http://127.0.0.1:8000/jwks.json" });
});

test("the key set is fetched when it is old or lacks a key", async () => {
  const { wire, verifier } = site();
  await Promise.all(Array.from({ length: 20 }, () => verifier.verify(vector)));
  assert.equal(wire.fetches, 1);
  const unknown = `${base64('{"alg":"EdDSA","kid":"k2","typ":"handoff+jwt"}')}.${vector.split(".").slice(1).join(".")}`;
  for (let i = 0; i < 50; i++) await assert.rejects(verifier.verify(unknown), refused("unknown-key"));
  assert.equal(wire.fetches, 1);
  wire.now += 15_000;
  await assert.rejects(verifier.verify(unknown), refused("unknown-key"));
  assert.equal(wire.fetches, 2);
  wire.now += 300_000;
  wire.body = '{"keys":[]}'; // the key is revoked
  await assert.rejects(verifier.verify(vector), refused("unknown-key"));
  assert.equal(wire.fetches, 3);
});

test("known keys verify while the server is unavailable", async () => {
  const x = JSON.parse(published).keys[0].x;
  for (const breaks of /** @type {((w: ReturnType<typeof site>["wire"]) => void)[]} */ ([
    (w) => (w.status = 0), (w) => (w.status = 503), (w) => (w.status = 302), (w) => (w.body += " ".repeat(64 << 10)), (w) => (w.body = "<html>"), (w) => (w.body = "{}"),
    (w) => (w.body = w.body.replace('"x"', '"d":"AAAA","x"')), (w) => (w.body = `{"keys":[${Array(101).fill('{"kty":"oct"}')}]}`),
    (w) => (w.body = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","x":"${x}="}]}`),
  ])) {
    const broken = site();
    breaks(broken.wire);
    await assert.rejects(broken.verifier.verify(vector), refused("no-key-set"));
    await assert.rejects(broken.verifier.verify(vector), refused("no-key-set"));
    assert.equal(broken.wire.fetches, 1);
    const { wire, verifier } = site();
    await verifier.verify(vector);
    breaks(wire);
    wire.now += 300_000;
    await verifier.verify(vector);
    assert.equal(wire.fetches, 2);
    wire.now = minted + 3_600_000;
    await assert.rejects(verifier.verify(vector), refused("no-key-set"));
  }
  const { wire, verifier } = site(); // keys of other types are ignored
  wire.body = published.replace("[", `[{"kty":"oct","kid":"k1","k":"AAAA"},{"kty":"OKP","crv":"Ed25519","kid":"k1","alg":"HS256","x":"${x}"},`);
  await verifier.verify(vector);
});

test("a token of a server is verified with the keys that it publishes", async () => {
  const { SIGNED_URL: baseUrl = "" } = process.env;
  assert.ok(baseUrl, "test/clients sets the environment of these tests");
  const guest = createGuestClient({ baseUrl, request: { headers: {} } });
  const property = "22222222-2222-4333-8444-555555555555";
  const stay = { checkIn: "2036-12-30", checkOut: "2037-01-02", adults: 2, children: 1 };
  const { token, handoffId } = await guest.mint(tenant, property, stay);
  const keys = `${baseUrl}/bff/consumer/v1/tenants/${tenant}/jwks.json`;
  const claims = await createHandoffVerifier({ keySet: keys, issuer, tenant }).verify(token);
  assert.deepEqual([claims.handoffId, claims.propertyId, claims.checkOut, claims.adults], [handoffId, property, stay.checkOut, 2]);
  const other = createHandoffVerifier({ keySet: keys.replace(tenant, "33333333-2222-4333-8444-555555555555"), issuer, tenant });
  await assert.rejects(other.verify(token), refused("unknown-key"));
});
