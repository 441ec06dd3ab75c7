import type { NextConfig } from "next";

const api = process.env.API ?? "http://127.0.0.1:8000";

// Browsers reach Holdfast under the page's origin. A reverse proxy in front of both would work too.
export default {
  rewrites: async () => [{ source: "/bff/consumer/v1/:path*", destination: `${api}/bff/consumer/v1/:path*` }],
} satisfies NextConfig;
