# Flow sizes of a cluster for web search: bytes, cumulative probability.
#
# Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, figure 4, as the evaluation of
# Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, has it
# (figure 4a). The points are those that generators of such traffic share since; linear between
# them. The mean is 1,711,250 bytes.
0        0
10000    0.15
20000    0.2
30000    0.3
50000    0.4
80000    0.53
200000   0.6
1000000  0.7
2000000  0.8
5000000  0.9
10000000 0.97
30000000 1
