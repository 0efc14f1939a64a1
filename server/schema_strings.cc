#include "server/schema_strings.h"

namespace loci::server {
namespace {

const std::string kYear = "[1-9][0-9]{3}";
const std::string kDate = "(" + kYear +
                          "-(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|((0[469]|11)-(0[1-9]|[12][0-9]|30))|"
                          "(02-(0[1-9]|1[0-9]|2[0-8]))))";
const std::string kTime =
    "(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))";
const std::string kByte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string kLabel = "([a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?)";
const std::string kHost = "(" + kLabel + "(\\." + kLabel + "){0,5})";
const std::string kUriRest = "(/[A-Za-z0-9._~-]{0,60}){0,8}(\\?[A-Za-z0-9._~=&-]{0,100})?(#[A-Za-z0-9._~-]{0,60})?";
const std::string kHex = "[0-9a-fA-F]";

struct Format {
  std::string_view name;
  std::string pattern;
};

const Format kFormats[] = {
    {"date", kDate},
    {"time", kTime},
    {"date-time", kDate + "T" + kTime},
    {"duration", "P([1-9][0-9]{0,3}D(T[1-9][0-9]{0,3}[HMS])?|T[1-9][0-9]{0,3}[HMS]|[1-9][0-9]{0,3}[YMW])"},
    {"uuid", kHex + "{8}-" + kHex + "{4}-" + kHex + "{4}-" + kHex + "{4}-" + kHex + "{12}"},
    {"email", "[a-z0-9]+([._-][a-z0-9]+){0,3}@" + kLabel + "(\\." + kLabel + "){0,3}\\.[a-z]{2,12}"},
    {"ipv4", kByte + "(\\." + kByte + "){3}"},
    {"ipv6", "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"},
    {"hostname", kHost},
    {"uri", "(https?|ftp)://" + kHost + "(:[1-9][0-9]{0,3})?" + kUriRest},
};

}  // namespace

std::string format_pattern(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return "^" + known.pattern + "$";
  }
  return "";
}

std::string known_formats() {
  std::string names;
  for (const Format& known : kFormats) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

}  // namespace loci::server
