# Flow sizes of a cluster for data mining: bytes, cumulative probability.
#
# Greenberg et al., "VL2: A Scalable and Flexible Data Center Network", SIGCOMM 2009, figure 2, as
# the evaluation of Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM
# 2013, has it (figure 4b). The points are those that generators of such traffic share since;
# linear between them. Half of the flows have less than 1,100 bytes, and one in fifty has more than
# 100 MB: 87 % of all bytes. The mean is 12,658,198.6 bytes.
0          0
180        0.1
216        0.2
560        0.3
900        0.4
1100       0.5
1870       0.6
3160       0.7
10000      0.8
400000     0.9
3160000    0.95
100000000  0.98
1000000000 1
