import type { NextConfig } from "next";

const api = process.env.API ?? "http://127.0.0.1:8000";

// Browsers reach Holdfast under the origin of the page. A reverse proxy in front of both does the same.
export default {
  rewrites: async () => [{ source: "/bff/consumer/v1/:path*", destination: `${api}/bff/consumer/v1/:path*` }],
} satisfies NextConfig;
