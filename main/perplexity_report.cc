#include "main/perplexity_report.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace loci::cli {
namespace {

struct Percentile {
  const char* name;
  double fraction;
};

void print_pair(const char* name, MeanError value) {
  std::printf("%s: %10.6f ± %10.6f\n", name, value.mean, value.error);
}

}  // namespace

void print_divergence_header() {
  std::printf(
      "\nchunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS"
      "            Same top p\n");
}

void print_divergence_line(int64_t chunk, const Divergence& d) {
  const MeanError ppl = d.ppl(), ratio = d.log_ratio(), kl = mean_error(d.kl()), rms = d.rms_delta_p(),
                  top = d.same_top();
  std::printf("%4lld  %10.4f ± %9.4f    %10.5f ± %9.5f    %10.5f ± %9.5f    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%\n",
              static_cast<long long>(chunk), ppl.mean, ppl.error, ratio.mean, ratio.error, kl.mean, kl.error,
              100 * rms.mean, 100 * rms.error, 100 * top.mean, 100 * top.error);
  std::fflush(stdout);
}

void print_divergence_report(const Divergence& d) {
  const MeanError ratio = d.log_ratio(), ppl = d.ppl(), base = d.base_ppl();
  const double factor = base.mean > 0 ? ppl.mean / base.mean : 0;
  std::printf("\n====== Perplexity statistics ======\n");
  print_pair("Mean PPL(Q)                   ", ppl);
  print_pair("Mean PPL(base)                ", base);
  std::printf("Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100 * d.correlation());
  print_pair("Mean ln(PPL(Q)/PPL(base))     ", ratio);
  print_pair("Mean PPL(Q)/PPL(base)         ", {factor, factor * ratio.error});
  print_pair("Mean PPL(Q)-PPL(base)         ", d.difference());

  std::vector<double> kl(d.kl().begin(), d.kl().end());
  std::sort(kl.begin(), kl.end());
  std::printf("\n====== KL divergence statistics ======\n");
  print_pair("Mean    KLD", mean_error(kl));
  for (const Percentile& p : {Percentile{"Maximum", 1},
                              {"99.9%  ", 0.999},
                              {"99.0%  ", 0.99},
                              {"95.0%  ", 0.95},
                              {"90.0%  ", 0.9},
                              {"Median ", 0.5},
                              {"10.0%  ", 0.1},
                              {" 5.0%  ", 0.05},
                              {" 1.0%  ", 0.01},
                              {" 0.1%  ", 0.001},
                              {"Minimum", 0}}) {
    std::printf("%s KLD: %10.6f\n", p.name, percentile(kl, p.fraction));
  }

  std::vector<double> delta(d.delta_p().begin(), d.delta_p().end());
  std::sort(delta.begin(), delta.end());
  const MeanError mean = mean_error(delta), rms = d.rms_delta_p(), top = d.same_top();
  std::printf("\n====== Token probability statistics ======\n");
  std::printf("Mean    Δp: %6.3f ± %5.3f %%\n", 100 * mean.mean, 100 * mean.error);
  for (const Percentile& p : {Percentile{"Maximum", 1},
                              {"99.9%  ", 0.999},
                              {"99.0%  ", 0.99},
                              {"95.0%  ", 0.95},
                              {"90.0%  ", 0.9},
                              {"75.0%  ", 0.75},
                              {"Median ", 0.5},
                              {"25.0%  ", 0.25},
                              {"10.0%  ", 0.1},
                              {" 5.0%  ", 0.05},
                              {" 1.0%  ", 0.01},
                              {" 0.1%  ", 0.001},
                              {"Minimum", 0}}) {
    std::printf("%s Δp: %6.3f%%\n", p.name, 100 * percentile(delta, p.fraction));
  }
  std::printf("RMS Δp    : %6.3f ± %5.3f %%\n", 100 * rms.mean, 100 * rms.error);
  std::printf("Same top p: %6.3f ± %5.3f %%\n", 100 * top.mean, 100 * top.error);
}

}  // namespace loci::cli
