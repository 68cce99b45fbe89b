// What PNG needs and node 18 has only half of.
export { deflateSync } from 'node:zlib';

const table = Int32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; ++k) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

export function crc32(bytes) {
  let c = -1;
  for (const byte of bytes) c = table[(c ^ byte) & 255] ^ (c >>> 8);
  return (c ^ -1) >>> 0;
}
