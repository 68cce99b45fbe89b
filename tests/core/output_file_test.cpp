#include "smartmine/core/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "core/made_files.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::io_error;
using ::testing::IsEmpty;
using testing::save;
using ::testing::StartsWith;
using testing::TemporaryFolder;

void write_text(OutputFile& file, const std::string& text) { file.write(text.data(), text.size()); }

/// Makes every file larger than `bytes` fail to grow while it lives, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  OutputFile file(folder / "a.bin");
  write_text(file, "hello ");
  write_text(file, "world");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.bin"));
  file.commit();
  EXPECT_EQ(contents(folder / "a.bin"), "hello world");
  EXPECT_THAT(folder.names(), ElementsAre("a.bin"));
}

TEST(OutputFile, TakesWhatIsFilledInThroughMemory) {
  const TemporaryFolder folder;
  std::shared_ptr<std::byte[]> memory;
  {
    OutputFile file(folder / "a.bin");
    write_text(file, "numbers:");
    memory = file.append_mapped(100000);
    if (memory == nullptr) GTEST_SKIP() << "this file system cannot take room beforehand";
    for (std::size_t i = 0; i < 100000; ++i) memory[i] = static_cast<std::byte>('a' + i % 26);
    file.commit();
  }
  EXPECT_EQ(memory[27], static_cast<std::byte>('b'));  // it may be read for as long as it is held
  const std::string found = contents(folder / "a.bin");
  ASSERT_EQ(found.size(), 8 + 100000U);
  EXPECT_THAT(found, StartsWith("numbers:abcdefghijklmnopqrstuvwxyzab"));
  EXPECT_EQ(found.back(), static_cast<char>('a' + 99999 % 26));
  EXPECT_THAT(folder.names(), ElementsAre("a.bin"));
}

TEST(OutputFile, SaysBeforehandThatThereIsNoRoomForWhatIsFilledIn) {
  const TemporaryFolder folder;
  const FileSizeLimit limit(1 << 16);
  OutputFile file(folder / "a.bin");
  EXPECT_THAT(io_error([&] { file.append_mapped(1 << 20); }), HasSubstr("a.bin: cannot write: File too large"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "a.bin");
    write_text(file, "hello");
    EXPECT_EQ(folder.names().size(), 1U);
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputFile, LeavesNothingWhenFinishedButNotCommitted) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "a.bin");
    write_text(file, "hello");
    file.finish();
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputFile, ReplacesAnOldFileOnlyOnCommit) {
  const TemporaryFolder folder;
  save(folder / "a.bin", "old");
  {
    OutputFile file(folder / "a.bin");
    write_text(file, "given up");
  }
  EXPECT_EQ(contents(folder / "a.bin"), "old");
  OutputFile file(folder / "a.bin");
  write_text(file, "new");
  EXPECT_EQ(contents(folder / "a.bin"), "old");
  file.commit();
  EXPECT_EQ(contents(folder / "a.bin"), "new");
}

TEST(OutputFile, HonoursTheUmask) {
  const TemporaryFolder folder;
  for (const mode_t mask : {mode_t{022}, mode_t{027}}) {
    const mode_t before = ::umask(mask);
    OutputFile file(folder / "a.bin");
    file.commit();
    ::umask(before);
    struct stat status {};
    ASSERT_EQ(::stat((folder / "a.bin").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
  }
}

TEST(OutputFile, WritesARelativeNameIntoTheCurrentFolder) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  {
    OutputFile file("plain.bin");
    write_text(file, "x");
    file.commit();
  }
  std::filesystem::current_path(before);
  EXPECT_THAT(folder.names(), ElementsAre("plain.bin"));
}

TEST(OutputFile, WritesThroughASymbolicLink) {
  const TemporaryFolder folder;
  save(folder / "target.bin", "old");
  std::filesystem::create_symlink("target.bin", folder / "link.bin");
  OutputFile file(folder / "link.bin");
  write_text(file, "new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.bin"));
  EXPECT_EQ(contents(folder / "target.bin"), "new");
}

TEST(OutputFile, ManyFilesAtOnceForOneDestinationDoNotMeet) {
  const TemporaryFolder folder;
  OutputFile first(folder / "a.bin");
  OutputFile second(folder / "a.bin");
  write_text(first, "first");
  write_text(second, "second");
  first.commit();
  second.commit();
  EXPECT_EQ(contents(folder / "a.bin"), "second");
  EXPECT_THAT(folder.names(), ElementsAre("a.bin"));
}

TEST(OutputFile, StepsAsideWhenTheTemporaryNameIsTaken) {
  const TemporaryFolder folder;
  std::string taken;
  {
    OutputFile probe(folder / "a.bin");
    taken = folder.names().at(0);
  }
  // Names count up; the next ones are made here as another machine with the same process id would have made them.
  const std::size_t dash = taken.rfind('-');
  const unsigned number = static_cast<unsigned>(std::stoul(taken.substr(dash + 1)));
  for (unsigned i = 1; i <= 3; ++i) save(folder / (taken.substr(0, dash + 1) + std::to_string(number + i) + ".tmp"), "theirs");
  OutputFile file(folder / "a.bin");
  write_text(file, "ours");
  file.commit();
  EXPECT_EQ(contents(folder / "a.bin"), "ours");
  for (unsigned i = 1; i <= 3; ++i)
    EXPECT_EQ(contents(folder / (taken.substr(0, dash + 1) + std::to_string(number + i) + ".tmp")), "theirs");
}

TEST(OutputFile, RefusesAMissingFolder) {
  const TemporaryFolder folder;
  const std::string message = io_error([&] { OutputFile file(folder / "missing/a.bin"); });
  EXPECT_THAT(message, StartsWith((folder / "missing/a.bin").string() + ": "));
  EXPECT_THAT(message, HasSubstr("No such file or directory"));
  EXPECT_THAT(message, HasSubstr("create the folder first"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputFile, RefusesAFileWhereAFolderShouldBe) {
  const TemporaryFolder folder;
  save(folder / "file", "x");
  EXPECT_THAT(io_error([&] { OutputFile file(folder / "file/a.bin"); }), HasSubstr("not a folder"));
}

TEST(OutputFile, RefusesAFolderAsDestination) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "sub");
  EXPECT_THAT(io_error([&] { OutputFile file(folder / "sub"); }), HasSubstr("this is a folder"));
  EXPECT_THAT(io_error([&] { OutputFile file(folder / "sub/"); }), HasSubstr("names a folder"));
  EXPECT_THAT(io_error([&] { OutputFile file(""); }), HasSubstr("give a file name"));
  EXPECT_THAT(folder.names(), ElementsAre("sub"));
}

TEST(OutputFile, RefusesADeviceInsteadOfReplacingIt) {
  EXPECT_THAT(io_error([&] { OutputFile file("/dev/full"); }), HasSubstr("device"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(OutputFile, RefusesANameThatIsTooLongBeforeAnyWork) {
  const TemporaryFolder folder;
  EXPECT_THAT(io_error([&] { OutputFile file(folder / std::string(300, 'x')); }), HasSubstr("shorter name"));
  OutputFile longest(folder / std::string(255, 'x'));  // the temporary name adds nothing to it
  longest.commit();
  EXPECT_THAT(folder.names(), ElementsAre(std::string(255, 'x')));
}

TEST(OutputFile, RefusesAReadOnlyFolder) {
  const TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0555);
  const uid_t user = ::geteuid();
  if (user == 0 && ::seteuid(65534) != 0) GTEST_SKIP() << "permission bits do not bind this user";
  const std::string message = io_error([&] { OutputFile file(folder / "a.bin"); });
  ASSERT_EQ(::seteuid(user), 0);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_THAT(message, HasSubstr("Permission denied"));
  EXPECT_THAT(message, HasSubstr("may be written to"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputFile, LeavesNothingWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  save(folder / "a.bin", "old");
  std::string message;
  {
    const FileSizeLimit limit(4096);
    OutputFile file(folder / "a.bin");
    const std::string block(3000, 'x');
    write_text(file, block);
    message = io_error([&] { write_text(file, block); });  // the first part of it still fits
  }
  EXPECT_THAT(message, StartsWith((folder / "a.bin").string() + ": cannot write: "));
  EXPECT_THAT(message, HasSubstr("ulimit -f"));
  EXPECT_EQ(contents(folder / "a.bin"), "old");
  EXPECT_THAT(folder.names(), ElementsAre("a.bin"));
}

TEST(OutputFile, RefusesToCommitOverAFolderThatAppearedMeanwhile) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "a.bin");
    write_text(file, "x");
    std::filesystem::create_directory(folder / "a.bin");
    EXPECT_THAT(io_error([&] { file.commit(); }), HasSubstr("this is a folder"));
  }
  EXPECT_THAT(folder.names(), ElementsAre("a.bin"));
}

TEST(OutputFile, SaysSoWhenTheFolderVanishedBeforeTheCommit) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "sub");
  OutputFile file(folder / "sub/a.bin");
  write_text(file, "x");
  std::filesystem::remove_all(folder / "sub");
  EXPECT_THAT(io_error([&] { file.commit(); }), HasSubstr("cannot rename"));
}

TEST(CommitAll, PutsAllFilesInPlace) {
  const TemporaryFolder folder;
  OutputFile ids(folder / "ids");
  OutputFile distances(folder / "distances");
  write_text(ids, "1");
  write_text(distances, "2");
  commit_all({ids, distances});
  EXPECT_EQ(contents(folder / "ids"), "1");
  EXPECT_EQ(contents(folder / "distances"), "2");
  EXPECT_EQ(folder.names().size(), 2U);
}

TEST(CommitAll, LeavesNoneWhenOneCannotBePlaced) {
  const TemporaryFolder folder;
  {
    OutputFile ids(folder / "ids");
    OutputFile distances(folder / "distances");
    write_text(ids, "1");
    write_text(distances, "2");
    std::filesystem::create_directory(folder / "distances");
    EXPECT_THAT(io_error([&] { commit_all({ids, distances}); }), HasSubstr("this is a folder"));
  }
  EXPECT_THAT(folder.names(), ElementsAre("distances"));
}

TEST(CommitAll, LeavesNoneWhenOneCannotBeWritten) {
  const TemporaryFolder folder;
  {
    const FileSizeLimit limit(100);
    OutputFile ids(folder / "ids");
    OutputFile distances(folder / "distances");
    write_text(ids, "1");
    io_error([&] { write_text(distances, std::string(200, 'x')); });
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputFile, RemovesWhatKilledWritersLeftBehindAndNothingElse) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {  // a writer that is killed in the middle
    OutputFile file(folder / "half");
    write_text(file, "half");
    ::raise(SIGKILL);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  };
  ASSERT_EQ(names().size(), 1U);
  EXPECT_TRUE(names().front().starts_with(".smartmine-" + std::to_string(child) + "-"));
  // Of a process that lives, and of none at all.
  const std::string mine = ".smartmine-" + std::to_string(::getpid()) + "-99999.tmp";
  for (const std::string& name : {mine, std::string(".smartmine-x-1.tmp"), std::string("smartmine-1-1.tmp"), std::string("note")})
    save(folder / name, "kept");
  {
    OutputFile file(folder / "whole");
    write_text(file, "whole");
    file.commit();
  }
  EXPECT_THAT(names(), ::testing::UnorderedElementsAre(".smartmine-x-1.tmp", mine, "note", "smartmine-1-1.tmp", "whole"));
  EXPECT_TRUE(is_temporary(folder / mine));
  EXPECT_FALSE(is_temporary(folder / ".smartmine-x-1.tmp"));
  EXPECT_FALSE(is_temporary(folder / "note"));
}

}  // namespace
}  // namespace smartmine
