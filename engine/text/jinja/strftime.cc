#include "engine/text/jinja/strftime.h"

#include <cstdio>
#include <ctime>

#include "engine/text/jinja/value.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

struct Moment {
  int year, month, day, hour, minute, second;
  int weekday;   // 0 = Sunday
  int year_day;  // 0 = January 1st
};

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_before_month(int year, int month) {
  static constexpr int kBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  return kBefore[month - 1] + (month > 2 && is_leap(year));
}

Moment parse(const std::string& now) {
  Moment m{};
  int used = 0;
  const int n = std::sscanf(now.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &m.year, &m.month, &m.day, &m.hour, &m.minute,
                            &m.second, &used);
  const bool in_range = n == 6 && m.year >= 1 && m.month >= 1 && m.month <= 12 && m.day >= 1 && m.day <= 31 &&
                        m.hour >= 0 && m.hour < 24 && m.minute >= 0 && m.minute < 60 && m.second >= 0 && m.second < 62;
  if (!in_range || static_cast<size_t>(used) != now.size()) {
    throw RenderError(str("expected a time such as 2025-03-14T09:26:53, found '", now, "'"));
  }
  m.year_day = days_before_month(m.year, m.month) + m.day - 1;
  const int y = m.year - 1;
  m.weekday = (y * 365 + y / 4 - y / 100 + y / 400 + m.year_day + 1) % 7;
  return m;
}

// Week of the year by ISO 8601 and the year it belongs to.
std::pair<int, int> iso_week(const Moment& m) {
  const int weekday = (m.weekday + 6) % 7;  // 0 = Monday
  const int week = (m.year_day - weekday + 10) / 7;
  const auto weeks_in = [](int year) {
    const auto p = [](int y) { return (y + y / 4 - y / 100 + y / 400) % 7; };
    return p(year) == 4 || p(year - 1) == 3 ? 53 : 52;
  };
  if (week < 1) return {m.year - 1, weeks_in(m.year - 1)};
  if (week > weeks_in(m.year)) return {m.year + 1, 1};
  return {m.year, week};
}

std::string pad(int value, int width, char fill, char flag) {
  if (flag == '_') fill = ' ';
  if (flag == '0') fill = '0';
  std::string digits = std::to_string(value);
  while (flag != '-' && static_cast<int>(digits.size()) < width) digits.insert(digits.begin(), fill);
  return digits;
}

// What one directive stands for.
std::string directive_text(char directive, char flag, const Moment& m, const std::string& now) {
  const int hour12 = m.hour % 12 == 0 ? 12 : m.hour % 12;
  switch (directive) {
    case 'Y':
      return std::to_string(m.year);
    case 'C':
      return pad(m.year / 100, 2, '0', flag);
    case 'y':
      return pad(m.year % 100, 2, '0', flag);
    case 'm':
      return pad(m.month, 2, '0', flag);
    case 'd':
      return pad(m.day, 2, '0', flag);
    case 'e':
      return pad(m.day, 2, ' ', flag);
    case 'H':
      return pad(m.hour, 2, '0', flag);
    case 'k':
      return pad(m.hour, 2, ' ', flag);
    case 'I':
      return pad(hour12, 2, '0', flag);
    case 'l':
      return pad(hour12, 2, ' ', flag);
    case 'M':
      return pad(m.minute, 2, '0', flag);
    case 'S':
      return pad(m.second, 2, '0', flag);
    case 'f':
      return "000000";
    case 'j':
      return pad(m.year_day + 1, 3, '0', flag);
    case 'p':
      return m.hour < 12 ? "AM" : "PM";
    case 'P':
      return m.hour < 12 ? "am" : "pm";
    case 'A':
      return kDays[m.weekday];
    case 'a':
      return std::string(kDays[m.weekday]).substr(0, 3);
    case 'B':
      return kMonths[m.month - 1];
    case 'b':
    case 'h':
      return std::string(kMonths[m.month - 1]).substr(0, 3);
    case 'u':
      return std::to_string(m.weekday == 0 ? 7 : m.weekday);
    case 'w':
      return std::to_string(m.weekday);
    case 'U':
      return pad((m.year_day + 7 - m.weekday) / 7, 2, '0', flag);
    case 'W':
      return pad((m.year_day + 7 - (m.weekday + 6) % 7) / 7, 2, '0', flag);
    case 'G':
      return std::to_string(iso_week(m).first);
    case 'V':
      return pad(iso_week(m).second, 2, '0', flag);
    case 'D':
    case 'x':
      return format_time("%m/%d/%y", now);
    case 'F':
      return format_time("%Y-%m-%d", now);
    case 'T':
    case 'X':
      return format_time("%H:%M:%S", now);
    case 'R':
      return format_time("%H:%M", now);
    case 'r':
      return format_time("%I:%M:%S %p", now);
    case 'c':
      return format_time("%a %b %e %H:%M:%S %Y", now);
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    case 'Z':
    case 'z':
      return "";  // a time without a zone
    default:
      return std::string("%") + directive;
  }
}

}  // namespace

std::string format_time(std::string_view format, const std::string& now) {
  const Moment m = parse(now);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    ++i;
    char flag = '\0';
    while (i + 1 < format.size() && std::string_view("-_0^#").find(format[i]) != std::string_view::npos) {
      flag = format[i++];
    }
    std::string part = directive_text(format[i], flag, m, now);
    if (flag == '^') {
      for (char& c : part) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    }
    out += part;
  }
  return out;
}

std::string local_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S", &parts);
  return buffer;
}

}  // namespace loci::jinja
