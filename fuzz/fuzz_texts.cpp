#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/text_file.h"
#include "input_file.h"
#include "memory_file.h"
#include "report/run_files.h"
#include "run/log_file.h"
#include "smartmine/core/error.h"
#include "smartmine/run/checkpoint.h"
#include "smartmine/run/choice.h"
#include "smartmine/run/config.h"
#include "smartmine/run/epoch_record.h"

// Texts of runs and tables of data sets; the first byte says which.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace smartmine;
  static const InputFile log, settings;
  static const InputFolder run;
  static const bool linked = (run.link("config.toml", settings), true);
  (void)linked;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  const std::string text(rest.begin(), rest.end());
  try {
    switch (data[0] % 8) {
      case 0: {
        RunConfig config;
        set_from_toml(config, text);
        to_toml(config);
        break;
      }
      case 1: {
        const LogFile read = read_log_file(log.write(rest));
        for (const LogLine& line : read.lines) {
          try {
            to_json_line(record_of(line.json));
          } catch (const InvalidArgument& refused) {
            expect_one_line(refused.what());
          }
        }
        break;
      }
      case 2:
        to_json(parse_state(text));
        break;
      case 3: {
        put_in_memory("table.csv", rest);
        const CsvTable read("table.csv");
        for (const auto& row : read.rows())
          if (row.fields.size() != read.header().size()) throw std::logic_error("a row of another length");
        break;
      }
      case 4:
        put_in_memory("list.txt", rest);
        read_numbered("list.txt", "image path");
        break;
      case 5: {
        Problems problems;
        settings.write(rest);
        read_settings(run.path(), problems);
        break;
      }
      case 6:
        to_json(parse_choice(text));
        break;
      default:
        parse_record(text);
    }
  } catch (const IoError& refused) {
    expect_one_line(refused.what());
  } catch (const InvalidArgument& refused) {
    expect_one_line(refused.what());
  }
  return 0;
}
