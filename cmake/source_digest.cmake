# Writes OUTPUT, a source file with a digest of what the program of SOURCE is made from: two states of one version are told apart by it.
set(patterns "")
foreach(folder IN ITEMS src include apps)
  foreach(kind IN ITEMS h cpp cu cuh)
    list(APPEND patterns ${SOURCE}/${folder}/*.${kind})
  endforeach()
endforeach()
file(GLOB_RECURSE files RELATIVE ${SOURCE} ${patterns})
set(digests "")
foreach(file IN LISTS files)
  file(SHA256 ${SOURCE}/${file} digest)
  string(APPEND digests "${file} ${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 12 digest)
file(WRITE ${OUTPUT} "namespace smartmine {
const char* source_digest();
const char* source_digest() { return \"sources ${digest}\"; }
}  // namespace smartmine
")
